# The node agent, with the gate libraries and the plugin for vLLM that it hands to containers.
# Needs Python 3.11 with venv and pip from its base; the base's C library must not be newer than the tenants'.
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE} AS build

RUN command -v gcc > /dev/null || (apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*)
COPY node_agent/native /opt/rowen-build/native
RUN cd /opt/rowen-build/native \
    && build() { gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -Wl,-z,now \
        -I . -o "/opt/rowen-build/lib/$@" -pthread -ldl; } \
    && mkdir ../lib \
    && build librowen.so shared/*.c tenant/*.c cpu/*.c online/*.c agent/*.c memory/*.c memory/*/*.c \
    && build librowen_nvidia.so shared/*.c tenant/*.c nvidia/*.c memory/*.c memory/*/*.c

FROM ${BASE}

ENV PATH=/opt/rowen/bin:$PATH \
    PYTHONPATH=/opt/rowen/code \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp

COPY requirements/uv.txt requirements/agent.txt /opt/rowen-build/
RUN python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
        -r /opt/rowen-build/uv.txt \
    && python3 -m venv --without-pip /opt/rowen \
    && /opt/uv/bin/uv pip install --quiet --python /opt/rowen/bin/python --link-mode copy --compile-bytecode \
        --require-hashes --no-deps -r /opt/rowen-build/agent.txt \
    && rm -rf /opt/uv

COPY crds/rowen/crds /opt/rowen/code/rowen/crds
COPY kube/rowen/kube /opt/rowen/code/rowen/kube
COPY node_agent/rowen/node_agent /opt/rowen/code/rowen/node_agent
# Files for engines; the agent itself imports none of them.
COPY runtime/rowen/runtime /opt/rowen/code/rowen/runtime
COPY --from=build /opt/rowen-build/lib /opt/rowen/code/rowen/node_agent/native
RUN rm -f /opt/rowen/code/rowen/node_agent/native/*.cpython-*.so \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/rowen/code

# Root, with KILL and SYS_NICE alone: it stops tenants and raises their control threads.
CMD ["python", "-m", "rowen.node_agent"]
