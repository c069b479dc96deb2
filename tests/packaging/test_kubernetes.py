#!/usr/bin/env python3
"""The manifests of Kubernetes: rendering, schemas, rights, and that they fit together with lulld and the documents.

usage: test_kubernetes.py SOURCE LULLD    SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import sys
import tempfile
import unittest

from release_tools import end, find, need, run

SOURCE, LULLD = sys.argv.pop(1), sys.argv.pop(1)
CHART = os.path.join(SOURCE, "packaging/helm/lull")
MANIFEST = os.path.join(SOURCE, "packaging/kubernetes/lull.yaml")
POD = os.path.join(SOURCE, "packaging/kubernetes/example-pod.yaml")
RENDER = ["template", "lull", CHART, "--namespace", "lull", "--set", "namespace.create=true"]
VERSIONS = ["1.25", "1.31", "1.37"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Kubernetes(unittest.TestCase):
    def documents(self, text):
        need(self, "yaml")
        import yaml
        return {document["kind"]: document for document in yaml.safe_load_all(text) if document}

    def validate(self, text):
        """Fails where a schema does not accept a document."""
        need(self, "kubernetes_validate")
        need(self, "yaml")
        import kubernetes_validate
        import yaml
        for document in yaml.safe_load_all(text):
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)

    def test_the_manifest_is_the_charts_rendering(self):
        done = run(find(self, "helm"), *RENDER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, read(MANIFEST),
                         "render it again: helm " + " ".join(RENDER).replace(SOURCE + "/", "") + " > packaging/kubernetes/lull.yaml")

    def test_the_chart(self):
        helm = find(self, "helm")
        done = run(helm, "lint", "--strict", CHART)
        self.assertEqual(done.returncode, 0, done.stdout)
        full = run(helm, *RENDER, "--set", "serve.enabled=true,imagePullSecrets[0].name=mine,image.tag=9")
        self.assertEqual(full.returncode, 0, full.stderr)
        self.validate(full.stdout)
        documents = self.documents(full.stdout)
        pod = documents["DaemonSet"]["spec"]["template"]["spec"]
        self.assertEqual([c["image"] for c in pod["containers"]], ["lull:9", "lull:9"])
        ports = [port["name"] for c in pod["containers"] for port in c.get("ports", [])]
        self.assertIn(documents["Service"]["spec"]["ports"][0]["targetPort"], ports)
        plain = run(helm, "template", "lull", CHART)
        self.assertNotIn("Namespace", self.documents(plain.stdout))

    def test_schemas(self):
        self.validate(read(MANIFEST))
        self.validate(read(POD))
        with self.assertRaises(Exception):  # the validator sees what is wrong
            self.validate(read(MANIFEST).replace("hostPID:", "hostPid:"))

    def test_rights(self):
        """Only what lulld needs."""
        documents = self.documents(read(MANIFEST))
        self.assertEqual(set(documents), {"Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"})
        pod = documents["DaemonSet"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"], "add": ["SYS_ADMIN"]})
        self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
        self.assertNotIn("privileged", container["securityContext"])
        self.assertEqual([key for key in pod if key.startswith("host")], ["hostPID"])
        self.assertIs(pod["automountServiceAccountToken"], False)
        self.assertEqual([v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v], ["/run/lull"])
        # A longer end than lulld's own, and no throttling.
        self.assertGreater(pod["terminationGracePeriodSeconds"], 5)
        self.assertNotIn("cpu", container["resources"]["limits"])

    def test_lulld_accepts_the_policy(self):
        policy = self.documents(read(MANIFEST))["ConfigMap"]["data"]["policy.conf"]
        for text in (policy, policy.replace("#[", "[").replace("#m", "m")):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                done = run(LULLD, "--check", "--policy", file.name)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_pod_and_the_document(self):
        pod = self.documents(read(POD))["Pod"]
        daemon = self.documents(read(MANIFEST))["DaemonSet"]["spec"]["template"]["spec"]
        document = read(os.path.join(SOURCE, "docs/admin/kubernetes.md"))
        (container,) = pod["spec"]["containers"]
        annotations = pod["metadata"]["annotations"]
        for variable in container["env"]:
            path = re.match(r"metadata\.annotations\['(.*)'\]", variable["valueFrom"]["fieldRef"]["fieldPath"])
            if path is not None:
                self.assertIn(path[1], annotations)
                self.assertRegex(document, rf"`{path[1]}`[^|]*\| {variable['name']} \|")
        self.assertEqual(pod["spec"]["initContainers"][0]["image"], daemon["containers"][0]["image"])
        socket = {v["name"]: v["hostPath"]["path"] for v in pod["spec"]["volumes"] if "hostPath" in v}
        self.assertEqual(list(socket.values()), ["/run/lull"])
        (mount,) = [m for m in container["volumeMounts"] if m["name"] in socket]
        self.assertEqual((mount["mountPath"], mount["readOnly"]), ("/run/lull", True))


if __name__ == "__main__":
    sys.exit(end(unittest.main(exit=False, verbosity=2)))
