# What online engines and offline workers run in: vLLM for CPU, transformers, PEFT, Rowen's runtime.
# Needs Python 3.11 with venv and pip from its base.
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE}

ENV PATH=/opt/rowen/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    VLLM_NO_USAGE_STATS=1

RUN echo 'rowen:x:65532:65532:rowen:/tmp:/usr/sbin/nologin' >> /etc/passwd && echo 'rowen:x:65532:' >> /etc/group

# vLLM's kernels link to these; a base may have them.
RUN python3 -c "import ctypes; [ctypes.CDLL(name) for name in ('libnuma.so.1', 'libgomp.so.1', 'libstdc++.so.6')]" \
    2> /dev/null || (apt-get update -q && apt-get install -qy --no-install-recommends libnuma1 libgomp1 libstdc++6 \
    && rm -rf /var/lib/apt/lists/*)

# The dependencies are one layer, slimmed where it is made. Bytecode is compiled here: in a pod nothing can write it.
# A cache that the builder mounts is used and kept.
COPY requirements/uv.txt requirements/runtime.txt dockerfiles/slim.py /opt/rowen-build/
RUN python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
        -r /opt/rowen-build/uv.txt \
    && python3 -m venv --without-pip /opt/rowen \
    && /opt/uv/bin/uv pip install --quiet --python /opt/rowen/bin/python --link-mode copy --compile-bytecode \
        --require-hashes --no-deps -r /opt/rowen-build/runtime.txt \
    && /opt/rowen/bin/python /opt/rowen-build/slim.py /opt/rowen/lib/python3.11/site-packages \
    && rm -rf /opt/uv \
    && (mountpoint -q /root/.cache/uv || rm -rf /root/.cache/uv)

# The official image of Python has its own library without bytecode.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -x '/(site-packages|dist-packages|lib2to3|test)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"

COPY crds/rowen/crds /opt/rowen/code/rowen/crds
COPY runtime/rowen/runtime /opt/rowen/code/rowen/runtime
COPY demo/rowen/demo/samples.py /opt/rowen/code/rowen/demo/samples.py
# Python finds it by a file of its own: PYTHONPATH is the user's, who may set it in a podTemplate.
RUN echo /opt/rowen/code > /opt/rowen/lib/python3.11/site-packages/rowen.pth \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/rowen/code

# What vLLM has torch compile even in eager mode, for log probabilities, would end the engine: there is no compiler here.
ENV TORCH_COMPILE_DISABLE=1
# Not earlier: package caches of the build belong elsewhere.
ENV HOME=/tmp USER=rowen
USER 65532:65532
