"""Nothing but what is above."""

from torchvision.transforms import InterpolationMode as InterpolationMode
