"""Accountants that papers use. They are looser than `gdp` and `zcdp` and serve comparisons.

Examples
--------
>>> from privem.accounting import Gaussian
>>> release = Gaussian(5.0)
>>> round(linear.epsilon(release, 1e-6), 3), round(moments.epsilon(release, 1e-6), 3)
(0.834, 1.071)
"""

from . import advanced, linear, moments

__all__ = ["advanced", "linear", "moments"]
