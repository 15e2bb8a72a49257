"""``python -m jtorch.distributed.run``, ``mpiexec`` itself, and programs that were started alone."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jtorch.distributed import run

ROOT = Path(__file__).parents[2]

TELL = """
import os, sys
print("told", [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT", "TORCHELASTIC_MAX_RESTARTS")], sys.argv[1:], __name__, flush=True)
"""


def alone(program, **environment):
    """Run a program without any launcher."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@pytest.mark.slow
def test_the_variables_of_torchrun(launch, tmp_path):
    (tmp_path / "tell.py").write_text(TELL)
    options = ["--standalone", "--nnodes=1", "--node_rank", "0", "--max-restarts", "1"]
    options += ["--master-port", "1234"]
    text = launch(2, str(tmp_path / "tell.py"), "-x", "--nproc-per-node", "7", options=options).text
    for rank in "01":
        values = [rank, rank, "2", "2", "127.0.0.1", "1234", "1"]
        assert f"told {values} ['-x', '--nproc-per-node', '7'] __main__" in text
    (tmp_path / "module_of_mine.py").write_text(TELL)
    assert "told ['0', '0', '1'" in launch(1, "-m module_of_mine").text


def test_a_script_of_pytorch_runs_unmodified_and_goes_on_after_a_failure(launch):
    script = Path(__file__).parent / "scripts" / "torch_style.py"
    ended = launch(2, f"-m jtorch.as_torch {script} 8", options=["--max-restarts", "2"])
    assert "ValueError: rank 1 fails once" in ended.text
    assert "starting them again, 2 more times at most" in ended.text
    assert ended.text.count("Resuming training from snapshot at Epoch 2") == 2
    losses = [float(x) for x in re.findall(r"Epoch \d \| Steps: 8 \| loss ([\d.]+)", ended.text)]
    assert len(losses) == 4 + 6 and losses[-1] < losses[0] / 5


def test_a_failure_has_a_traceback_and_a_status(launch, tmp_path):
    (tmp_path / "fails.py").write_text("import os\nassert os.environ['RANK'] == '0', 'only one'\n")
    ended = launch(2, str(tmp_path / "fails.py"), check=False)
    assert ended.status == 1
    assert "AssertionError: only one" in ended.text and "giving up" in ended.text


EXITS = """
import sys, jtorch, jtorch.distributed as dist
dist.init_process_group(timeout=20)
if dist.get_rank() == 1:
    sys.exit({code})
dist.all_reduce(jtorch.ones(3))
"""


@pytest.mark.parametrize(("code", "status"), [("3", 3), ("'no data'", 1)])
def test_sys_exit_in_one_process_ends_all_with_its_status(launch, tmp_path, code, status):
    (tmp_path / "exits.py").write_text(EXITS.format(code=code))
    ended = launch(2, str(tmp_path / "exits.py"), check=False)
    assert ended.status == status and ended.seconds < 15, ended
    assert "no data" in ended.text or status == 3


WAITS = """
import os, signal, time
{ignore}
print("pid", os.getpid(), flush=True)
time.sleep(60)
"""


def runs(pid):
    """Whether that process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("ignore", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_ends_all_processes(launch, tmp_path, number, ignore):
    (tmp_path / "waits.py").write_text(WAITS.format(ignore=ignore))
    command = [sys.executable, "-m", "jtorch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "waits.py"], cwd=tmp_path, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as started:  # fmt: skip
        pids = [re.fullmatch(r"pid (\d+)\n", started.stdout.readline())[1] for _ in range(2)]
        assert all(map(runs, pids))
        started.send_signal(number)
        assert started.wait(20) == 128 + number
    deadline = time.monotonic() + 5
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, pids))


def test_mpiexec_alone_is_enough(launch, tmp_path):
    """Without the launcher: ranks are MPI's, and the variables are there after joining."""
    program = (
        "import os, jtorch.distributed as d; d.init_process_group(); r = d.get_rank();"
        "assert os.environ['LOCAL_RANK'] == os.environ['RANK'] == str(r) and os.environ['WORLD_SIZE'] == '2';"
        "d.barrier(); print('came to the end')"
    )
    command = run.mpiexec("", 2)
    ended = subprocess.run([*command, sys.executable, "-c", program], capture_output=True, text=True,
                           timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("came to the end") == 2


def test_a_program_started_alone_is_rank_0_of_1(launch):
    ended = alone(
        """if 1:
        import jtorch, jtorch.distributed as dist
        from jtorch import nn
        dist.init_process_group("gloo")
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        x = jtorch.ones(3)
        for call in (dist.all_reduce, dist.ordered_all_reduce, lambda t: dist.broadcast(t, 0)):
            call(x)
        objects = [None]
        dist.all_gather_object(objects, {"a": 1})
        model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(
            nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))))
        model(jtorch.randn(4, 3)).sum().backward()
        sampler = jtorch.utils.data.DistributedSampler(range(5), shuffle=False)
        assert list(sampler) == [0, 1, 2, 3, 4]
        print(x.tolist(), objects, model.module[0].weight.grad is not None)
        """
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "[1.0, 1.0, 1.0] [{'a': 1}] True\n"


def test_a_world_that_mpi_did_not_start_is_an_error(launch):
    ended = alone("import jtorch.distributed as d; d.init_process_group()", WORLD_SIZE="4", RANK="0")
    assert ended.returncode == 1
    assert "a world of 4 processes was announced" in ended.stderr and "mpiexec -n 4" in ended.stderr


def test_backends(launch):
    ended = alone(
        """if 1:
        import jtorch.distributed as dist
        try:
            dist.init_process_group("nccl")
        except ValueError as error:
            assert "use 'mpi', or 'gloo'" in str(error)
        try:
            dist.get_rank()
        except ValueError as error:
            assert "has not been initialized" in str(error)
        dist.init_process_group("cpu:gloo,cuda:nccl")
        print(dist.get_backend())
        """
    )
    assert ended.stdout == "gloo\n", ended.stderr


@pytest.mark.slow
def test_importing_is_late():
    """Neither ``import jtorch`` nor the import of the package loads mpi4py."""
    ended = alone(
        "import sys, jtorch; assert 'jtorch.distributed' not in sys.modules;"
        "jtorch.nn, jtorch.utils.data; assert 'jtorch.distributed' not in sys.modules;"
        "jtorch.distributed.is_initialized(), jtorch.nn.parallel.DistributedDataParallel;"
        "print('mpi4py' in sys.modules)"
    )
    assert ended.stdout == "False\n", ended.stderr


def test_without_mpi4py_the_error_says_how_to_get_it():
    ended = alone(
        "import sys; sys.modules['mpi4py'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'mpi4py' else find(name, *rest)\n"
        "import jtorch.distributed as d\n"
        "assert not d.is_available()\n"
        "d.init_process_group()"
    )
    assert "python -m pip install 'jtorch-compile[mpi]'" in ended.stderr


@pytest.mark.parametrize("arguments", [["--nnodes", "2", "x.py"], ["--node-rank", "1", "x.py"]])
def test_several_hosts_are_for_mpiexec(arguments, capsys):
    assert run.main(arguments) == 2
    assert "mpiexec --host" in capsys.readouterr().err


def test_a_number_of_processes_that_is_none():
    with pytest.raises(SystemExit, match="--nproc-per-node 'many'"):
        run.main(["--nproc-per-node", "many", "x.py"])
