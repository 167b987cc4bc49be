"""scikit-learn estimators: Kernel VICReg as a transformer, and the spectrum of kernel PCA.

from kvicreg.sklearn import KernelVICReg
make_pipeline(KernelVICReg(kernel="rbf", n_components=16), LogisticRegression()).fit(X, y)
"""

try:
    from kvicreg.sklearn.estimator import KernelVICReg
    from kvicreg.sklearn.spectrum import KernelSpectrum
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("kvicreg"):
        raise
    raise ModuleNotFoundError(
        f"kvicreg.sklearn needs {error.name}: pip install 'kvicreg[sklearn]'", name=error.name
    ) from error

__all__ = ["KernelSpectrum", "KernelVICReg"]
