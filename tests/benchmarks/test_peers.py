"""A peer's process ends without a word, whatever it was doing when the other end of its pipe closed."""

from multiprocessing import Pipe

from benchmarks import peers


def test_it_ends_when_the_pipe_is_closed():
    ours, theirs = Pipe()
    with theirs:
        ours.close()
        assert peers._serve(theirs, "jtorch eager", None) is None


def test_it_ends_when_the_pipe_is_closed_with_an_answer_in_it():
    """Then it is reset: Ctrl-C came between the answer and its being read."""
    ours, theirs = Pipe()
    with theirs:
        theirs.send("an answer that nobody reads")
        ours.close()
        assert peers._serve(theirs, "jtorch eager", None) is None
