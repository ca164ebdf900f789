"""Keeps of libFuzzer's inputs a few small ones that each reach other code: keep_corpus.py FUZZ_COVERAGE READER FOLDER [INPUT...]
merges FOLDER and writes ../corpus/READER.zip, with the further INPUTs, for instance those of mended defects."""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

MOST_BYTES = 4000  # of an archive


def main():
    program, reader, folder, *more = sys.argv[1:]
    archive = pathlib.Path(__file__).resolve().parent.parent / "corpus" / f"{reader}.zip"
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as merged:
        subprocess.run([program, "-merge=1", "-max_len=2000", merged, folder], env=os.environ | {"ATTEST_FUZZ_READER": reader}, check=True)
        inputs = sorted(map(pathlib.Path, os.scandir(merged)), key=lambda path: (path.stat().st_size, path.name))
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
            for number, path in enumerate([*map(pathlib.Path, more), *inputs[::-1][::max(1, len(inputs) // 40)]]):
                if zipped.fp.tell() < MOST_BYTES:
                    zipped.writestr(zipfile.ZipInfo(f"{number:03}"), path.read_bytes(), zipfile.ZIP_DEFLATED)
    print(f"{archive.name}: {archive.stat().st_size} bytes, {number + 1} inputs offered of {len(inputs)}")


main()
