import os

import pytest

from runtime_server.cpus import usable_cpus


@pytest.fixture
def box(tmp_path, monkeypatch):
    """Return a maker of file trees in which this process, on a 12-core machine, has the given quotas."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))

    def make(quotas: dict[str, str], cgroup: str = "0::/pod/app\n"):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(cgroup)
        (tmp_path / "sys/fs/cgroup/pod/app").mkdir(parents=True)
        for folder, text in quotas.items():
            (tmp_path / "sys/fs/cgroup" / folder / "cpu.max").write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({"pod/app": "200000 100000\n"}, 2),
        ({"pod/app": "150000 100000\n"}, 1),
        ({"pod/app": "50000 100000\n"}, 1),
        ({"pod/app": "max 100000\n"}, 12),
        ({"pod/app": "max 100000\n", "pod": "300000 100000\n"}, 3),
        ({"pod/app": "400000 100000\n", "pod": "300000 100000\n"}, 3),
        ({".": "200000 100000\n"}, 2),
        ({"pod/app": "9900000 100000\n"}, 12),
        ({"pod/app": "nonsense"}, 12),
        ({}, 12),
    ],
)
def test_the_tightest_quota_above_the_process_counts_in_whole_cpus(box, quotas, expected):
    assert usable_cpus(box(quotas)) == expected


def test_without_version_2_cgroups_the_affinity_mask_counts(box, tmp_path):
    assert usable_cpus(box({"pod/app": "100000 100000"}, cgroup="4:memory:/x\n")) == 12
    assert usable_cpus(tmp_path / "nothing here") == 12


def test_the_affinity_mask_counts_on_this_machine():
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))
