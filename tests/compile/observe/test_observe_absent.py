"""What is not there at first: a name that a module, a class or a base of it gets later counts then."""

import types

import pytest

import jtorch
import jtorch.nn as nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


@read
def getattr_of_a_module():
    module = types.ModuleType("constants")
    return lambda x: x * getattr(module, "gain", 2.0), setting(module, "gain", 5.0)


@read
def hasattr_of_a_module():
    module = types.ModuleType("constants")
    return lambda x: x * (5 if hasattr(module, "gain") else 2), setting(module, "gain", 5.0)


@read
def an_error_of_a_module():
    module = types.ModuleType("constants")

    def f(x):
        try:
            return x * module.gain
        except AttributeError:
            return x * 2

    return f, setting(module, "gain", 5.0)


@read
def getattr_of_a_class():
    class Config:
        pass

    return lambda x: x * getattr(Config, "gain", 2.0), setting(Config, "gain", 5.0)


@read
def getattr_of_a_class_whose_base_gets_it():
    class Base:
        pass

    class Config(Base):
        pass

    return lambda x: x * getattr(Config, "gain", 2.0), setting(Base, "gain", 5.0)


@read
def getattr_of_a_class_whose_metaclass_gets_it():
    class Meta(type):
        pass

    class Config(metaclass=Meta):
        pass

    return lambda x: x * getattr(Config, "gain", 2.0), setting(Meta, "gain", 5.0)


@read
def getattr_of_an_instance_whose_class_gets_it():
    class Config:
        pass

    config = Config()
    return lambda x: x * getattr(config, "gain", 2.0), setting(Config, "gain", 5.0)


@read
def getattr_of_an_instance_made_inside():
    class Config:
        pass

    return lambda x: x * getattr(Config(), "gain", 2.0), setting(Config, "gain", 5.0)


@read
def getattr_of_a_layer_whose_class_gets_it():
    class Net(nn.Module):
        def forward(self, x):
            return x * getattr(self, "gain", 2.0)

    return Net(), setting(Net, "gain", 5.0)


@read
def getattr_of_a_layer_of_the_librarys():
    layer = nn.Linear(2, 2)

    def change():
        nn.Linear.gain = 5.0
        return lambda: delattr(nn.Linear, "gain")

    return lambda x: x * getattr(layer, "gain", 2.0), change


@read
def a_class_method_that_is_overridden():
    class Base:
        @classmethod
        def gain(cls):
            return 2.0

    class Config(Base):
        pass

    config = Config()
    return lambda x: x * config.gain(), setting(Config, "gain", classmethod(lambda cls: 5.0))


@read
def a_base_that_super_finds_first():
    class Base:
        def gain(self):
            return 2.0

    class Between(Base):
        pass

    class Config(Between):
        def gain(self):
            return super().gain()

    config = Config()
    return lambda x: x * config.gain(), setting(Between, "gain", lambda self: 5.0)


@read
def an_attribute_of_super():
    class Base:
        rate = 2.0

    class Config(Base):
        def gain(self):
            return super().rate

    config = Config()
    return lambda x: x * config.gain(), setting(Base, "rate", 5.0)


@read
def a_method_inherited_by_a_class_made_inside():
    class Base:
        rate = 2.0

    def f(x):
        class Config(Base):
            pass

        return x * Config().rate * Config.rate

    return f, setting(Base, "rate", 5.0)


@read
def a_descriptor_that_comes_before_what_the_instance_has():
    class Rate:
        def __get__(self, owner, cls):
            return 5.0

    class Scaled:
        rate = Rate()

    scaled = Scaled()
    scaled.__dict__["rate"] = 2.0
    return (lambda x: x * scaled.rate), setting(Rate, "__set__", lambda self, owner, value: None)


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_a_name_that_a_module_looks_up_itself(tmp_path, monkeypatch):
    """A module that imports its parts when they are asked for gets them by being recorded."""
    package = tmp_path / "observed_lazily"
    package.mkdir()
    text = "import importlib\ndef __getattr__(name): return importlib.import_module(__name__ + '.' + name)"
    (package / "__init__.py").write_text(text)
    (package / "part.py").write_text("RATE = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import observed_lazily

    f = jtorch.compile(lambda x: x * observed_lazily.part.RATE)
    assert f(t(1)).tolist() == [2.0]
    monkeypatch.setattr(observed_lazily.part, "RATE", 5.0)
    assert f(t(1)).tolist() == [5.0]


def test_a_class_that_changes_behind_the_recording_is_an_error_that_puts_it_back():
    class Config:
        pass

    def f(x):
        gain = getattr(Config, "gain", 2.0)
        list(map(type.__setattr__, [Config], ["gain"], [5.0]))
        return x * gain

    with pytest.raises(CompileError, match="changes 'gain' of Config"):
        jtorch.compile(f)(t(1))
    assert not hasattr(Config, "gain")


def test_what_is_read_again_is_one_read():
    class Config:
        @classmethod
        def gain(cls):
            return 2.0

    def f(x):
        for _ in range(50):
            x = x * Config.gain() * getattr(Config, "rate", 1.0)
        return x

    compiled = jtorch.compile(f)
    compiled(t(1))
    assert len(compiled._newest().capture.plain) < 12
