"""Every kernel law of tests/unit/csrc, on the device: same inputs, same tolerances, NVRTC's code."""

# ruff: noqa: F403
import pytest

from tests.unit.csrc.test_csrc_codec_chain import *
from tests.unit.csrc.test_csrc_conv import *
from tests.unit.csrc.test_csrc_frame import *
from tests.unit.csrc.test_csrc_grouped_gemm import *
from tests.unit.csrc.test_csrc_linear import *
from tests.unit.csrc.test_csrc_sampler import *
from tests.unit.csrc.test_csrc_transformer_kernels import *
from tests.unit.training.test_training_taps import *

pytestmark = pytest.mark.gpu

del globals()["kernels"]  # the emulated ones; conftest's are the device's
