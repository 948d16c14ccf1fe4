# %%
df = pd.DataFrame({"a": [1.234, 5.678], "b": ["x", "y"]}, index=["r1", "r2"])
styled = df.style.format({"a": "{:.1f}"}).highlight_max(subset=["a"])
"1.2" in styled.to_html()
# %%
"5.7" in styled.to_html(), styled.data is df
# %%
styled = styled.set_caption("Cap")
"Cap" in styled.to_html()
# %%
print(df.to_markdown())
print(df.to_string())
# %%
df.to_dict("records"), df.T.shape
# %%
html = df.to_html()
latex = df.to_latex()
html.count("<tr"), latex.count("tabular")
