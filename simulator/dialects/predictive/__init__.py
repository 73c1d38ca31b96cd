"""Triton Inference Server 26.06 with ONNX models: real answers of ONNX Runtime, on this machine.

Flags, routes, bodies, errors and metrics are those of triton-inference-server/server at v2.70.0
(`src/http_server.cc`) and of triton-inference-server/core (`src/infer_request.cc`), BSD-3-Clause.
Not there: gRPC, backends other than ONNX Runtime, sequences, shared memory, classification,
compression and statistics. A request for them is rejected.
"""
