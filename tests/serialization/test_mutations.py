"""Files with bytes changed at random: what loading them may do is to give an object or a documented error."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.memory_peak import PEAK_SOURCE

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS, as Linux has it"),
]

COUNT = 3000
_CHILD = '''
import collections, io, json, random, sys, time, zipfile
import numpy as np
import jtorch
from jtorch.core.errors import DataError

kind, count = sys.argv[1], int(sys.argv[2])
state = {"w": jtorch.arange(12.0).reshape(3, 4), "t": jtorch.arange(12.0).reshape(3, 4).T, "n": 3,
         "f": [1.5, None],
         "h": jtorch.ones(2, dtype=jtorch.bfloat16), "step": (1, True, "text"), "c": jtorch.ones(2) * 1j}

def written():
    file = io.BytesIO()
    if kind == "pt":
        jtorch.save(state, file, format="torch")
    elif kind == "safetensors":
        jtorch.save(state, file, format="safetensors")
    else:
        arrays = {"a": np.arange(9.0).reshape(3, 3), "b": np.ones(4, ">i4"),
                  "c": np.asfortranarray(np.ones((2, 3)))}
        np.savez_compressed(file, **arrays)
    return file.getvalue()

whole, rng = written(), random.Random(20 + len(kind))

def rezipped(content):
    """Half of a zip's mutations are made in a record and its checksum put right: others only meet that."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice([n for n in names if n.endswith(("data.pkl", ".npy"))] or names)
        for name in names:
            record = old.read(name)
            new.writestr(name, mutated(record) if name == chosen else record)
    return out.getvalue()

def mutated(content):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(content))
        action = rng.randrange(6)
        if action == 0: content[at] ^= 1 << rng.randrange(8)
        elif action == 1: content[at] = rng.randrange(256)
        elif action == 2: content[at : at + 4] = rng.choice(
            [b"\\0" * 4, b"\\xff" * 4, b"\\xff\\xff\\xff\\x7f"])
        elif action == 3: del content[at : at + rng.randrange(1, 40)]
        elif action == 4: content[at:at] = content[at : at + rng.randrange(1, 40)]
        else: del content[at:]
        if not content: break
    return bytes(content)

events = []
sys.addaudithook(lambda name, args: events.append(name) if name in (
    "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn",
    "pickle.find_class", "socket.connect", "exec"
) and watching else None)
counts, longest, watching = collections.Counter(), 0.0, False
for k in range(200 if count > 200 else 0):  # what is imported on the first use is imported before the watch
    try: jtorch.load(io.BytesIO(mutated(whole)))
    except (DataError, NotImplementedError, RuntimeError, FileNotFoundError): pass
watching = True
for k in range(count):
    content = rezipped(whole) if kind != "safetensors" and k % 2 else mutated(whole)
    begin = time.perf_counter()
    try:
        jtorch.load(io.BytesIO(content))
        counts["loaded"] += 1
    except DataError as error:
        assert len(str(error)) < 4000
        counts["DataError"] += 1
    except NotImplementedError:
        counts["NotImplementedError"] += 1
    except RuntimeError as error:
        assert "device" in str(error), error
        counts["RuntimeError of a device"] += 1
    except BaseException as error:
        counts["raw"] += 1
        print(k, repr(error)[:300], file=sys.stderr)
    longest = max(longest, time.perf_counter() - begin)
print(json.dumps({"counts": counts, "seconds": longest, "peak": peak() >> 20, "events": events}))
'''


@pytest.mark.parametrize("kind", ["pt", "npz", "safetensors"])
def test_mutated_files(kind):
    import resource

    def limit():
        # beside what libraries map and never touch: peak memory itself is asserted below
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK_SOURCE + _CHILD, kind, str(COUNT)],
        capture_output=True, text=True, timeout=300, preexec_fn=limit, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    print(kind, told)
    assert sum(told["counts"].values()) == COUNT and "raw" not in told["counts"], done.stderr[-2000:]
    assert told["events"] == [] and told["peak"] < 512 and told["seconds"] < 10
