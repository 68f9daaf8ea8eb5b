"""Generated from the .proto files beside this one.

cd node_agent && python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. \
        rowen/node_agent/proto/*.proto
"""
