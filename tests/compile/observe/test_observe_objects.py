"""Objects, classes and modules outside a compiled function: their attributes count at each call."""

import dataclasses
import operator
import types
import weakref

import pytest

import jtorch
import jtorch.nn as nn
from tests.compile.observe.observing import Config, Mode, Slotted, assert_noticed, setting, t

SETTINGS = types.SimpleNamespace(rate=2.0, nested=types.SimpleNamespace(power=3))


READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


@read
def an_object_reached_through_a_local():
    config = Config()

    def get():
        return config

    def f(x):
        c = get()
        return x * c.rate

    return f, setting(config, "rate", 5.0)


@read
def an_object_reached_through_a_call():
    config = Config()

    def get():
        return config

    return lambda x: x * get().rate, setting(config, "rate", 5.0)


@read
def an_object_reached_through_getattr():
    config = types.SimpleNamespace(inner=Config())
    return lambda x: x * getattr(config, "in" + "ner").rate, setting(config.inner, "rate", 5.0)


@read
def an_attribute_that_is_missing_at_first():
    config = Config()
    return lambda x: x * getattr(config, "power", 2.0), setting(config, "power", 5.0)


@read
def hasattr_of_an_object():
    config = Config()
    return lambda x: x * (2 if hasattr(config, "power") else 3), setting(config, "power", 5.0)


@read
def a_dataclass():
    config = Config()
    return lambda x: x * config.rate, setting(config, "rate", 5.0)


@read
def a_list_of_a_dataclass():
    config = Config()
    return lambda x: x * config.sizes[1], setting(config.sizes, 1, 5)


@read
def a_dataclass_with_slots():
    config = Slotted()
    return lambda x: x * config.rate, setting(config, "rate", 5.0)


@read
def a_dataclass_as_a_dict():
    config = Config()
    return lambda x: x * dataclasses.asdict(config)["rate"], setting(config, "rate", 5.0)


@read
def a_namespace():
    return lambda x: x * SETTINGS.rate**SETTINGS.nested.power, setting(SETTINGS.nested, "power", 2)


@read
def vars_of_an_object():
    config = Config()
    return lambda x: x * vars(config)["rate"], setting(config, "rate", 5.0)


@read
def an_enum():
    options = {"mode": Mode.FAST}
    return lambda x: x * (2 if options["mode"] is Mode.FAST else 3), setting(options, "mode", Mode.SLOW)


@read
def the_value_of_an_enum():
    options = types.SimpleNamespace(mode=Mode.FAST)
    return lambda x: x * (options.mode.value + 3), setting(options, "mode", Mode.SLOW)


@read
def a_class_attribute():
    class Constants:
        rate = 2.0

    return lambda x: x * Constants.rate, setting(Constants, "rate", 5.0)


@read
def a_class_attribute_through_an_instance():
    class Scaler:
        rate = 2.0

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(Scaler, "rate", 5.0)


@read
def a_class_attribute_hidden_by_an_instance():
    class Scaler:
        rate = 2.0

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(scaler, "rate", 5.0)


@read
def a_class_attribute_of_a_base_overridden():
    class Base:
        rate = 2.0

    class Derived(Base):
        pass

    return lambda x: x * Derived.rate, setting(Derived, "rate", 5.0)


@read
def a_class_method_and_a_static_one():
    class Constants:
        rate = 2.0

        @classmethod
        def scale(cls, x):
            return x * cls.rate

        @staticmethod
        def shift(x):
            return x + 1

    return lambda x: Constants.shift(Constants.scale(x)), setting(Constants, "rate", 5.0)


@read
def a_property():
    class Scaler:
        def __init__(self):
            self._rate = 2.0

        @property
        def rate(self):
            return self._rate * 2

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(scaler, "_rate", 5.0)


@read
def a_dynamic_attribute():
    class Options:
        def __init__(self):
            self.store = {"rate": 2.0}

        def __getattr__(self, name):
            return self.store[name]

    options = Options()
    return lambda x: x * options.rate, setting(options.store, "rate", 5.0)


@read
def an_object_that_is_called():
    class Scaler:
        def __init__(self):
            self.rate = 2.0

        def __call__(self, x):
            return x * self.rate

    scaler = Scaler()
    return scaler, setting(scaler, "rate", 5.0)


@read
def operators_of_an_object():
    class Rate:
        def __init__(self):
            self.value = 2.0

        def __rmul__(self, other):
            return other * self.value

        def __len__(self):
            return int(self.value)

    rate = Rate()
    return lambda x: x * (3 * rate) + len(rate), setting(rate, "value", 5.0)


@read
def a_pattern_of_a_class():
    config = Config()

    def f(x):
        match config:
            case Config(rate=0.1):
                return x * 2
            case _:
                return x

    return f, setting(config, "rate", 5.0)


@read
def an_attribute_of_a_base_through_super():
    class Base:
        rate = 2.0

    class Derived(Base):
        def scale(self, x):
            return x * super().rate

    return Derived().scale, setting(Base, "rate", 5.0)


@read
def the_dict_of_a_class():
    class Constants:
        rate = 2.0

    return lambda x: x * Constants.__dict__["rate"], setting(Constants, "rate", 5.0)


@read
def an_option_that_a_namespace_lacks():
    options = types.SimpleNamespace()
    return lambda x: x * getattr(options, "rate", 2.0), setting(options, "rate", 5.0)


@read
def an_attribute_by_attrgetter():
    config = types.SimpleNamespace(inner=Config())
    return lambda x: x * operator.attrgetter("inner.rate")(config), setting(config.inner, "rate", 5.0)


@read
def an_iterable_object():
    class Rates:
        def __init__(self):
            self.rates = [1.0, 2.0]

        def __iter__(self):
            return iter(self.rates)

        def __bool__(self):
            return self.rates[0] > 0

        def __getitem__(self, place):
            return self.rates[place]

    rates = Rates()

    def f(x):
        return x * sum(r for r in rates) + rates[0] if rates else x

    return f, setting(rates.rates, 1, 5.0)


@read
def a_weakly_referenced_object():
    config = Config()
    reference = weakref.ref(config)
    return lambda x, keep=config: x * reference().rate, setting(config, "rate", 5.0)


@read
def a_class_attribute_of_an_object_made_inside():
    class Scaler:
        table = [2.0]  # noqa: RUF012

    return lambda x: x * Scaler().table[0], setting(Scaler.table, 0, 5.0)


@read
def an_attribute_of_a_metaclass():
    class Meta(type):
        rate = 2.0

    class Scaler(metaclass=Meta):
        pass

    return lambda x: x * Scaler.rate, setting(Meta, "rate", 5.0)


@read
def an_attribute_of_an_iterator_of_ones_own():
    class Batches:
        size = 2

        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration

    batches = Batches()
    return lambda x: x * batches.size, setting(batches, "size", 5)


@read
def the_dict_of_an_object():
    config = Config()
    return lambda x: x * config.__dict__["rate"], setting(config, "rate", 5.0)


@read
def a_flag_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.flag = True

        def forward(self, x):
            return x * 2 if self.flag else x * 3

    net = Net()
    return net, setting(net, "flag", False)


@read
def a_list_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rates = [2.0]

        def forward(self, x):
            return x * self.rates[0]

    net = nn.Sequential(Net(), nn.Identity())
    return (lambda x: net(x)), setting(net[0].rates, 0, 5.0)


@read
def a_config_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()

        def forward(self, x):
            return x * self.config.rate

    net = Net()
    return net, setting(net.config, "rate", 5.0)


@read
def a_class_attribute_of_a_module():
    class Net(nn.Module):
        rate = 2.0

        def forward(self, x):
            return x * self.rate

    return Net(), setting(Net, "rate", 5.0)


@read
def an_argument_of_a_class_of_its_own():
    class Option:
        rate = 2.0

    option = Option()
    return (lambda x, option=option: x * option.rate), setting(option, "rate", 5.0)


@read
def a_rate_read_from_an_optimizer():
    optimizer = jtorch.optim.SGD([t(1).requires_grad_()], lr=0.1)
    return lambda x: x * optimizer.param_groups[0]["lr"], setting(optimizer.param_groups[0], "lr", 5.0)


@read
def a_rate_asked_of_a_scheduler():
    optimizer = jtorch.optim.SGD([t(1).requires_grad_()], lr=1.0)
    scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    return lambda x: x * scheduler.get_last_lr()[0], scheduler.step


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])
