#!/usr/bin/env python3
"""The list of what the library consists of (SBOM), in the form of SPDX 2.3, as JSON.

Usage: sbom.py [FILE]      (standard output without)

One package, which contains the files that are compiled or installed, each with its licence and hashes, and depends on the
system's C library only. Like the source archive it depends on nothing but the files: there is no time of its making in it
but the fixed one that the archive's files have.
"""
import datetime
import hashlib
import json
import os
import re
import sys

import release

SHIPPED = re.compile(r"(src|include|cmake|tools)/.*|CMakeLists\.txt|LICENSE")


def entry(path, content):
    """What SPDX says of a file."""
    named = re.search(rb"SPDX-License-Identifier: (\S+)", content)
    return {
        "SPDXID": "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", path),
        "fileName": "./" + path,
        "checksums": [{"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, content).hexdigest()}
                      for kind in ("sha1", "sha256")],
        "licenseConcluded": "MIT",
        "licenseInfoInFiles": [named[1].decode() if named else "NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def document(root=release.ROOT):
    """The whole document, as the value that JSON has of it."""
    files = []
    for path in filter(SHIPPED.fullmatch, release.members(root)):
        with open(os.path.join(root, path), "rb") as f:
            files.append(entry(path, f.read()))
    # What SPDX asks for: the hash of the sorted hashes of all files.
    sums = "".join(sorted(file["checksums"][0]["checksumValue"] for file in files))
    code = hashlib.sha1(sums.encode()).hexdigest()
    version = release.version(root)
    made = datetime.datetime.fromtimestamp(release.FILE_TIME, datetime.timezone.utc)
    package = "SPDXRef-Package-libmimalloc"
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"libmimalloc-{version}",
        "documentNamespace": f"https://libmimalloc.example/spdx/libmimalloc-{version}-{code}",
        "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: libmimalloc-sbom.py"]},
        "packages": [{
            "SPDXID": package,
            "name": "libmimalloc",
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": True,
            "packageVerificationCode": {"packageVerificationCodeValue": code},
            "licenseConcluded": "MIT",
            "licenseDeclared": "MIT",
            "licenseInfoFromFiles": sorted({file["licenseInfoInFiles"][0] for file in files}),
            "copyrightText": re.search(r"^Copyright .*", release.read("LICENSE", root), re.MULTILINE)[0],
            "primaryPackagePurpose": "LIBRARY",
        }],
        "files": files,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": package},
            *({"spdxElementId": package, "relationshipType": "CONTAINS", "relatedSpdxElement": file["SPDXID"]}
              for file in files),
        ],
    }


def write(path, root=release.ROOT):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document(root), f, indent=1)
        f.write("\n")


def main(arguments):
    if len(arguments) > 1 or arguments[:1] == ["-h"]:
        sys.exit(__doc__)
    write(arguments[0] if arguments else "/dev/stdout")


if __name__ == "__main__":
    main(sys.argv[1:])
