"""The logs of all parts as one file, of bounded size."""
import io
import os
import tarfile

from check_gpu.check import ROOT

HEAD, END = 64 << 10, 192 << 10  # bytes kept of a log's beginning and end


def without_folders(c, data):
    """Leave out the paths of the work folder and the checkout, which are of no use elsewhere."""
    for folder in (c.work, ROOT):
        data = data.replace(folder.encode() + os.sep.encode(), b"")
    return data


def shortened(data):
    left_out = len(data) - HEAD - END
    return data if left_out <= 0 else data[:HEAD] + b"\n... %d bytes left out ...\n" % left_out + data[-END:]


def read(path):
    """Return {name: bytes} of a file that write() made; nothing where there is none or it is damaged."""
    try:
        with tarfile.open(path) as tar:
            return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    except (OSError, tarfile.TarError, EOFError):
        return {}


def write(c, path):
    """Write the logs in the work folder, what was said on standard output, and those of earlier checks; in one step."""
    logs = dict(c.earlier_logs, **{"check.log": "".join(line + "\n" for line in c.said).encode()})
    for name in (row["name"] + ".log" for row in c.rows.values()):
        if os.path.exists(os.path.join(c.work, name)):
            with open(os.path.join(c.work, name), "rb") as f:
                logs[name] = f.read()
    with tarfile.open(path + ".new", "w:gz", compresslevel=3) as tar:
        for name, data in logs.items():
            data = shortened(without_folders(c, data))
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    os.replace(path + ".new", path)
