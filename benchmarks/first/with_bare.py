"""Nothing at all: what every Python program pays."""

import time

print(time.monotonic())
