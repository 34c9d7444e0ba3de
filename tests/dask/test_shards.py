"""Files of a folder as one dask array."""

import numpy as np
import pytest

pytest.importorskip("dask.array")
pytest.importorskip("distributed")

from sfumato.dask import shards


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_a_folder_of_shards_is_one_array_in_the_order_of_its_names(tmp_path, suffix):
    X = np.random.default_rng(0).normal(size=(600, 3))
    for i, part in enumerate(np.split(X, 3)):
        if suffix == "npy":
            np.save(tmp_path / f"part-{i}.npy", part)
        else:
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(
                arrow.table({f"x{j}": part[:, j] for j in range(3)}), tmp_path / f"part-{i}.parquet"
            )
    array = shards(tmp_path)
    assert array.chunks[0] == (200, 200, 200)
    np.testing.assert_array_equal(array.compute(scheduler="synchronous"), X)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no .npy or .parquet file"):
        shards(tmp_path)
