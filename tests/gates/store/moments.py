"""The two moments that the crash gate saves: PREVIOUS, and NEXT that the victim dies saving, in six small packs."""

import numpy as np

from tests.store_kit import content

PACK_UNITS = 64
PREVIOUS = content(5 * PACK_UNITS + 60, 1)
NEXT = PREVIOUS.copy()
WRITTEN = np.arange(20, len(NEXT))
NEXT[WRITTEN] = content(len(WRITTEN), 2)
