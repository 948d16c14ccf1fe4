# %%
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
X, y = load_iris(return_X_y=True)
Xa, Xb, ya, yb = train_test_split(X, y, random_state=0, stratify=y)
Xa.shape
# %%
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
model.fit(Xa, ya)
round(model.score(Xb, yb), 4)
# %%
model.predict(Xb[:5]).tolist(), model.named_steps["standardscaler"].mean_.round(3).tolist()
# %%
from sklearn.metrics import confusion_matrix
cm = confusion_matrix(yb, model.predict(Xb))
cm
# %%
model[-1].coef_.shape, model.predict_proba(Xb[:1]).round(3).tolist()
# %%
from sklearn.base import clone
fresh = clone(model).set_params(logisticregression__C=0.01)
fresh.fit(Xa, ya)
fresh.get_params()["logisticregression__C"], round(fresh.score(Xb, yb), 4)
