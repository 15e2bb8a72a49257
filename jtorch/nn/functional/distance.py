"""Distances, angles and unit vectors.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#distance-functions
"""

from jtorch.eager.functions.distances import cosine_similarity as cosine_similarity
from jtorch.eager.functions.distances import normalize as normalize
from jtorch.eager.functions.distances import pairwise_distance as pairwise_distance
