"""The measurement of guards runs, and reports a change that goes by unnoticed."""

from benchmarks import guards


def test_the_tables(capsys):
    assert guards.report(quick=True) == 0
    lines = capsys.readouterr().out.splitlines()
    tables, foreign = lines[:6], lines[6:]
    assert [line.split()[0] for line in tables] == ["reads", "0", "10", "parameters", "10", "100"]
    reads = [int(line.split()[1]) for line in tables if not line.strip()[0].isalpha()]
    assert reads[1] >= reads[0] + 10  # each number outside is guarded
    assert reads[2] == reads[3]  # parameters are not
    times = {line[:36].strip(): float(line[36:]) for line in foreign[1:]}
    assert "nothing" in times and "agent.data = []" in times
    assert all(0 < us < 5000 for us in times.values())  # a confirmation costs more than that


def test_a_change_that_is_not_noticed_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(guards.State, "change", lambda self, chosen: None)
    assert guards.report(quick=True) == 1
    assert "NO" in capsys.readouterr().out
