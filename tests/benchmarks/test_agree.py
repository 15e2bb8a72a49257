import numpy as np
import pytest

from benchmarks.agree import DisagreementError, Record, Tolerance, check

TOLERANCE = Tolerance(losses=1e-5, gradients=1e-4, parameters=1e-4)


def a_record(loss=1.0, gradient=0.5, parameter=2.0, dtype=np.float32):
    def array(*values):
        return np.array(values, dtype)

    return Record([array(3.0), array(loss)], {"w": array(gradient, 1.0)}, {"w": array(parameter, 4.0)})


def test_equal_records_agree():
    check(a_record(), a_record(), TOLERANCE, "compiled")


def test_rounding_is_allowed():
    check(a_record(1 + 5e-6, 0.50004, 2.0001), a_record(), TOLERANCE, "compiled")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"loss": 1.001}, "the result of step 1"),
        ({"loss": float("nan")}, "the result of step 1"),
        ({"gradient": 0.501}, "gradients of w"),
        ({"gradient": float("inf")}, "gradients of w"),
        ({"parameter": 2.01}, "parameters of w"),
        ({"dtype": np.float64}, "the result of step 0"),
    ],
)
def test_what_differs_is_named(changed, named):
    with pytest.raises(DisagreementError, match=f"compiled: {named}"):
        check(a_record(**changed), a_record(), TOLERANCE, "compiled")


def test_a_missing_gradient_is_a_difference():
    found = a_record()
    found.gradients["b"] = found.gradients.pop("w")
    with pytest.raises(DisagreementError, match=r"has gradients of \['b'\], expected \['w'\]"):
        check(found, a_record(), TOLERANCE, "compiled")


def test_no_gradients_at_all_only_pass_where_the_library_has_none_to_show():
    without = Record(a_record().losses, {}, a_record().parameters)
    check(without, a_record(), TOLERANCE, "jax", gradients=False)
    with pytest.raises(DisagreementError, match="has gradients of"):
        check(without, a_record(), TOLERANCE, "compiled")
