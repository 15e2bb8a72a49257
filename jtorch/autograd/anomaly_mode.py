"""``jtorch.autograd.anomaly_mode``: PyTorch's place for the anomaly modes."""

from jtorch.eager.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly

__all__ = ["detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"]
