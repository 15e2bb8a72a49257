"""``torch.nn.modules.rnn``: the layers that PyTorch keeps there."""

from jtorch.nn.recurrent_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from jtorch.nn.rnn import GRU, LSTM, RNN, RNNBase

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
