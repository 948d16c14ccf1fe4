# %%
import io, csv, json
buf = io.StringIO()
w = csv.writer(buf)
w.writerow(["a", "b"])
w.writerow([1, "x,y"])
buf.getvalue()
# %%
buf.write("2,z\r\n")
rows = list(csv.reader(io.StringIO(buf.getvalue())))
rows
# %%
frame = pd.read_csv(io.StringIO(buf.getvalue()))
frame
# %%
b = io.BytesIO(b"hello world")
b.read(5)
# %%
b.read(), b.tell()
# %%
buf.seek(0)
buf.readline(), buf.tell()
# %%
buf.read(3), json.loads(frame.to_json(orient="records"))[0]
