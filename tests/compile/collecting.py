"""Programs collected by decorators: those that must give what eager gives, and those that must be refused."""

from collections.abc import Callable


def collectors() -> tuple[dict, dict, Callable, Callable]:
    """(programs by name, (program, sentence of the refusal) by name, the decorator of each)"""
    programs: dict = {}
    refusals: dict = {}

    def program(function):
        programs[function.__name__] = function
        return function

    def refused(sentence):
        def decorator(function):
            refusals[function.__name__] = (function, sentence)
            return function

        return decorator

    return programs, refusals, program, refused
