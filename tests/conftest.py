"""For all tests. Read before the first import of torch."""

import os

# The tests' tensors are tiny. With more threads each operation waits at barriers, up to twenty times longer where other
# processes want the cores as well.
os.environ.setdefault("OMP_NUM_THREADS", "1")
