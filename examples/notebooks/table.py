# %% [markdown]
# # A table, with scikit-learn
#
# `kvicreg.sklearn.KernelVICReg` is a transformer like `PCA`: it learns from the rows of a table without labels.
# Here a table has a row of 64 grey levels for each of 1,797 digits.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kvicreg.sklearn import KernelVICReg

X, y = load_digits(return_X_y=True)
learner = KernelVICReg(n_components=32, kernel="rbf", epochs=40, random_state=0)
features = learner.fit_transform(X.astype("float32"))
print(X.shape, "to", features.shape)

# %% [markdown]
# Two principal directions of both, coloured by labels that neither has seen.

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
for axis, name, table in zip(axes, ("the table", "learnt features"), (X, features), strict=False):
    axis.scatter(*PCA(2).fit_transform(table).T, c=y, s=5, cmap="tab10")
    axis.set_title(name)
axes[2].plot(learner.loss_curve_)
axes[2].set_title("loss by epoch")


# %% [markdown]
# Does it help? A linear model with labels for few rows, ten draws of them.


# %%
def score(table, labels, labelled: int) -> str:
    draws = StratifiedShuffleSplit(10, train_size=labelled, random_state=0)
    scores = cross_val_score(make_pipeline(StandardScaler(), LogisticRegression()), table, labels, cv=draws)
    return f"{scores.mean():.1%} ± {scores.std():.1%}"


print("digits, 50 labels: the table", score(X, y, 50), "learnt features", score(features, y, 50))
wine, kinds = load_wine(return_X_y=True)
learnt = KernelVICReg(n_components=16, epochs=100, random_state=0).fit_transform(StandardScaler().fit_transform(wine))
print("wine, 12 labels:   the table", score(wine, kinds, 12), "learnt features", score(learnt, kinds, 12))

# %% [markdown]
# A little, if at all: the draws differ by more. Columns that mean something only together leave more to be learnt than
# measurements that were chosen for their meaning.
