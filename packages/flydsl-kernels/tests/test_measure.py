"""Times of calls: what is called how often, what is left out of the mean, and the estimates of the simulator."""

import pytest

torch = pytest.importorskip("torch")

import flydsl.runtime as rt  # noqa: E402
from flydsl.kernels import ops  # noqa: E402
from flydsl.kernels.measure import bench_gpu_us_torch, bench_kernel_us, perftest, run_perftest  # noqa: E402
from flydsl.runtime.timing import set_default_timer  # noqa: E402


class Clock:
    """Times that are known: each measured call takes the next of a list, in milliseconds."""

    estimate, label = False, "known times"

    def __init__(self, times):
        self.times = iter(times)

    def measure(self, call, repeat, stream):
        for _ in range(repeat):
            call()
        return [next(self.times) for _ in range(repeat)]


@pytest.fixture
def clock():
    def known(*times):
        set_default_timer(Clock(times))

    yield known
    set_default_timer(None)


def test_mean_without_the_first_call(clock):
    clock(100.0, 1.0, 2.0, 3.0)
    calls = []
    out, microseconds = run_perftest(lambda x: calls.append(x) or len(calls), torch.ones(4), num_iters=3, num_warmup=2)
    assert microseconds == 2000.0
    assert len(calls) == 2 + 1 + 4  # warm-up, the result, what is timed
    assert out == 3


def test_outliers_of_many_calls_are_left_out(clock):
    clock(9.0, *[1.0, 1.1] * 20, 50.0)
    assert run_perftest(lambda: None, num_iters=41)[1] == pytest.approx(1050.0)


def test_copies_rotate_and_the_operands_are_not_written(clock):
    clock(*[1.0] * 5)
    x, seen = torch.zeros(3), []

    def step(y, n):
        seen.append(y.data_ptr())
        y += n
        return y

    out, _ = run_perftest(step, x, num_iters=4, num_warmup=0, num_rotate_args=2, n=1)
    assert out is x and x.tolist() == [1.0] * 3  # the result is that of the operands themselves
    assert len(set(seen[1:])) == 2 and x.data_ptr() not in seen[1:]


def test_decorator(clock):
    clock(7.0, 2.0, 4.0)

    @perftest(num_iters=2, num_warmup=0)
    def double(x):
        return 2 * x

    out, microseconds = double(torch.ones(2))
    assert out.tolist() == [2.0, 2.0] and microseconds == 3000.0 and double.__name__ == "double"


def test_median_of_calls_on_cold_caches(clock):
    clock(9.0, 9.0, 1.0, 2.0, 3.0)
    order = []
    time = bench_kernel_us(lambda: order.append("run"), warmup=2, iters=3, prep_fn=lambda: order.append("prepare"))
    assert time == 2000.0 and order == ["prepare", "run"] * 5


def test_mean_of_calls_that_follow_each_other(clock):
    clock(10.0)
    calls = []
    assert bench_gpu_us_torch(lambda: calls.append(1), warmup=3, iters=5) == 2000.0
    assert len(calls) == 8


def test_wrong_counts():
    with pytest.raises(ValueError, match="run_perftest: num_iters must be positive, got 0"):
        run_perftest(lambda: None, num_iters=0)
    for name in ("num_warmup", "num_rotate_args"):
        with pytest.raises(ValueError, match=f"run_perftest: {name} must not be negative, got -1"):
            run_perftest(lambda: None, **{name: -1})
    for measured in (bench_kernel_us, bench_gpu_us_torch):
        with pytest.raises(ValueError, match=f"{measured.__name__}: iters must be positive, got 0"):
            measured(lambda: None, iters=0)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="testGraph needs torch with a GPU"):
            run_perftest(lambda: None, testGraph=True)


def test_the_simulator_gives_estimates():
    x = torch.randn(64, 512)
    with rt.profile(timing=True) as found:
        ops.softmax(x)
    expected = sum((launch.sustained or launch.timing).microseconds for launch in found.launches)
    out, microseconds = run_perftest(ops.softmax, x)
    assert torch.allclose(out, x.softmax(-1), atol=1e-6) and microseconds == pytest.approx(expected)
    for measured in (bench_kernel_us, bench_gpu_us_torch):
        assert measured(lambda: ops.softmax(x)) == pytest.approx(expected)
