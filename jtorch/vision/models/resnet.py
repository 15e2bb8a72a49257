"""Residual networks, with ``torchvision.models``' names: of layers, of their parameters, of the makers.

Source: https://docs.pytorch.org/vision/stable/models/resnet.html; He et al. 2015, https://arxiv.org/abs/1512.03385
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch import flatten, nn
from jtorch.eager.public import Tensor


def _conv3x3(inputs: int, outputs: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, dilation, dilation, groups, bias=False)


def _conv1x1(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut: (N, inplanes, H, W) to (N, planes, H / stride, W / stride)."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = _conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 beside a shortcut: (N, inplanes, H, W) to (N, 4 planes, H / stride, W / stride).

    The 3x3 convolution has the stride, which the paper gives to the first 1x1.
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = _conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = _conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = _conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Four stages of ``layers`` blocks between a 7x7 stem and a linear head: (N, 3, H, W) to (N, classes).

    Raises ValueError for a ``replace_stride_with_dilation`` that is no 3-tuple.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        dilated = replace_stride_with_dilation or (False, False, False)
        if len(dilated) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None "
                f"or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilated[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialise(zero_init_residual)

    def _initialise(self, zero_init_residual: bool) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
        for m in self.modules() if zero_init_residual else ():  # each block begins as its shortcut
            if isinstance(m, (BasicBlock, Bottleneck)):
                nn.init.constant_((m.bn3 if isinstance(m, Bottleneck) else m.bn2).weight, 0)

    def _make_layer(
        self, block: type[Any], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                _conv1x1(self.inplanes, planes * block.expansion, stride),
                self._norm_layer(planes * block.expansion),
            )
        rest = (self.groups, self.base_width)
        made = [block(self.inplanes, planes, stride, downsample, *rest, before, self._norm_layer)]
        self.inplanes = planes * block.expansion
        for _ in range(1, blocks):
            made.append(block(self.inplanes, planes, 1, None, *rest, self.dilation, self._norm_layer))
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flatten(self.avgpool(x), 1))


def _made(name: str, block: type[Any], layers: Sequence[int], **fixed: Any) -> Callable[..., ResNet]:
    def maker(*, weights: Any = None, progress: bool = True, **options: Any) -> ResNet:
        if weights is not None or options.pop("pretrained", False):
            raise NotImplementedError(
                f"{name}(weights={weights}): jtorch downloads no weights. Make it with weights=None and give "
                "load_state_dict() what jtorch.load() reads from a file."
            )
        return ResNet(block, layers, **{**options, **fixed})

    maker.__name__ = maker.__qualname__ = name
    maker.__doc__ = (
        f"``{name}`` with random weights; ``options`` go to ResNet. NotImplementedError for pretrained ones."
        f"\n\n    Source: https://docs.pytorch.org/vision/stable/models/generated/torchvision.models.{name}.html"
    )
    return maker


resnet18 = _made("resnet18", BasicBlock, (2, 2, 2, 2))
resnet34 = _made("resnet34", BasicBlock, (3, 4, 6, 3))
resnet50 = _made("resnet50", Bottleneck, (3, 4, 6, 3))
resnet101 = _made("resnet101", Bottleneck, (3, 4, 23, 3))
resnet152 = _made("resnet152", Bottleneck, (3, 8, 36, 3))
resnext50_32x4d = _made("resnext50_32x4d", Bottleneck, (3, 4, 6, 3), groups=32, width_per_group=4)
resnext101_32x8d = _made("resnext101_32x8d", Bottleneck, (3, 4, 23, 3), groups=32, width_per_group=8)
wide_resnet50_2 = _made("wide_resnet50_2", Bottleneck, (3, 4, 6, 3), width_per_group=128)
wide_resnet101_2 = _made("wide_resnet101_2", Bottleneck, (3, 4, 23, 3), width_per_group=128)
