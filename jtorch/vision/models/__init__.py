"""Networks for images, with ``torchvision.models``' names; their weights are random, or yours."""

from jtorch.vision.models import resnet as resnet
from jtorch.vision.models.resnet import (
    ResNet as ResNet,
    resnet18 as resnet18,
    resnet34 as resnet34,
    resnet50 as resnet50,
    resnet101 as resnet101,
    resnet152 as resnet152,
    resnext50_32x4d as resnext50_32x4d,
    resnext101_32x8d as resnext101_32x8d,
    wide_resnet50_2 as wide_resnet50_2,
    wide_resnet101_2 as wide_resnet101_2,
)
