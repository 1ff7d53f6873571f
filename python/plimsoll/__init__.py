"""plimsoll: what a training job will take of a GPU, before it runs.

    import plimsoll
    report = plimsoll.estimate(model, example_inputs, optimizer="adamw", precision="amp-bf16", gpu="a100-80gb")
    report.peak_bytes, report.fits
    report.step_ms, report.utilization["smact"].value
    plimsoll.max_batch(model, example_inputs, gpu="t4").batch
    print(plimsoll.collocate(report, "other.json"))
    if plimsoll.fits("model.pt2", batch=64, gpu="l4"): ...

`python -m plimsoll train.py ARGS` asks the same of a script, unchanged, up to its second optimizer step.
The package is a thin layer over libplimsoll, which simulates what PyTorch allocates; it needs no GPU, and
PyTorch only where a module is given.
"""
from ._api import Batch, Estimator, Fit, estimate, estimators, fits, gpus, load, max_batch, optimizers
from ._collocate import Pair, collocate
from ._decide import Found, Remedies, Remedy, max_seq, min_gpus, remedies, smallest_gpu
from ._errors import Error, InputError, LimitError, MissingError, UsageError
from ._library import library_path
from ._model import Model, Symbol
from ._report import Alive, Figure, Gpu, Moment, Report, Time

__version__ = "0.2.0"

__all__ = [
    "Alive", "Batch", "Error", "Estimator", "Figure", "Fit", "Found", "Gpu", "InputError", "LimitError", "MissingError", "Model", "Moment", "Pair",
    "Remedies", "Remedy", "Report", "Symbol", "Time", "UsageError", "collocate", "estimate", "estimators", "fits", "gpus", "library_path", "load",
    "max_batch", "max_seq", "min_gpus", "optimizers", "remedies", "smallest_gpu",
]
