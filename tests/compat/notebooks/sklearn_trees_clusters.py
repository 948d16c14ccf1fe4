# %%
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
rng = np.random.RandomState(0)
X = np.vstack([rng.randn(40, 3), rng.randn(40, 3) + 4])
y = np.repeat([0, 1], 40)
forest = RandomForestClassifier(n_estimators=10, random_state=1).fit(X, y)
forest.score(X, y)
# %%
forest.predict([[4, 4, 4], [0, 0, 0]]).tolist(), forest.feature_importances_.round(3).tolist()
# %%
km = KMeans(2, n_init=3, random_state=0).fit(X)
sorted(np.bincount(km.labels_).tolist())
# %%
int(km.predict([[4, 4, 4]])[0]) == int(km.labels_[-1]), km.inertia_ > 0
# %%
pca = PCA(2).fit(X)
Z = pca.transform(X)
Z.shape, pca.explained_variance_ratio_.round(3).tolist()
# %%
pca.inverse_transform(Z[:1]).shape, len(forest.estimators_), rng.randint(1000)
