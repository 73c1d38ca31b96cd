from twin.cluster import lifecycle as clusters
from twin.host.paths import TwinPaths


def test_a_cluster_whose_processes_are_gone_is_ended_and_its_data_stays(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    folder = paths.root / "clusters" / "us-central1--main"
    folder.mkdir(parents=True)
    (folder / "data").write_text("kept")
    clusters.stop(folder, paths)
    assert (folder / "data").read_text() == "kept"
