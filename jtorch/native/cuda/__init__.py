"""What a CUDA device is asked by: NVIDIA's driver and cuBLAS through their C functions. Importing this
touches neither: ``device.Device`` does when one is made.
"""
