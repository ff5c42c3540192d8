"""A device that fails says so in words; settings that make arithmetic coarser are told once."""

import jax
import pytest

import pgmjax as pj
from pgmjax._internal import device


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes", 'max_bytes.*oracle="host"'),
        ("INTERNAL: CUDA error: an illegal instruction", "failed .INTERNAL.*Run it again"),
        ("UNAVAILABLE: socket closed", "no longer available .*JAX_PLATFORMS=cpu"),
    ],
)
def test_failures_of_the_device_are_told(message, told):
    with pytest.raises(pj.Error, match=told) as caught, device.failures_told():
        raise jax.errors.JaxRuntimeError(message)
    assert isinstance(caught.value, device.DeviceError) and isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError)
    assert message.partition(": ")[2] not in str(caught.value)


@pytest.mark.parametrize("message", ["INVALID_ARGUMENT: shapes", "INTERNAL: CpuCallback error: ValueError"])
def test_what_is_not_of_the_device_is_left_as_it_is(message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message), device.failures_told():
        raise jax.errors.JaxRuntimeError(message)


@pytest.mark.parametrize(
    ("flags", "precision", "words"),
    [
        ("--xla_cpu_enable_fast_math=true", None, ["minus infinity"]),
        ("--a=b --xla_cpu_enable_fast_math", "tensorfloat32", ["minus infinity", "'tensorfloat32'"]),
        ("", "bfloat16", ["'bfloat16'"]),
        ("--xla_cpu_enable_fast_math=true --xla_cpu_enable_fast_math=false", "highest", []),
        ("--xla_cpu_fast_math_honor_nans=true", None, []),
    ],
)
def test_coarse_settings_are_told_at_the_first_fit_alone(flags, precision, words, monkeypatch, caplog):
    monkeypatch.setenv("XLA_FLAGS", flags)
    device.tell_coarse_flags.cache_clear()
    domain, values = pj.Domain({"a": 2, "b": 2}), [[3.0, 1.0], [2.0, 4.0]]
    estimator = pj.Estimator(oracle="contraction", max_steps=5)
    with jax.default_matmul_precision(precision), caplog.at_level("WARNING", logger="pgmjax"):
        for _ in range(2):
            estimator.fit(domain, [pj.LinearMeasurement(("a", "b"), values, 1.0)], total=10.0)
    device.tell_coarse_flags.cache_clear()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(words) and all(word in line for word, line in zip(words, said, strict=True))
