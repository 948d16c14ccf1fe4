# %%
from sklearn.feature_extraction.text import TfidfVectorizer, CountVectorizer
from sklearn.naive_bayes import MultinomialNB
docs = ["good movie", "bad film", "good good", "awful bad movie"]
labels = [1, 0, 1, 0]
vec = TfidfVectorizer()
M = vec.fit_transform(docs)
M.shape, sorted(vec.vocabulary_)
# %%
nb = MultinomialNB().fit(M, labels)
nb.predict(vec.transform(["good film", "awful"])).tolist()
# %%
vec.transform(["good"]).toarray().round(2).tolist(), nb.classes_.tolist()
# %%
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.linear_model import Ridge
from sklearn.datasets import make_regression
A, b = make_regression(60, 4, noise=3, random_state=2)
search = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10]}, cv=KFold(3)).fit(A, b)
search.best_params_
# %%
search.best_estimator_.alpha, round(search.best_score_, 3), len(search.cv_results_["params"])
# %%
search.predict(A[:2]).round(1).tolist()
