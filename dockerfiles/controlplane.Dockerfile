# The operator (`python -m rowen.operator`), the scheduler (`python -m rowen.scheduler`) and the batch gateway
# (`python -m rowen.gateway`).
# Needs Python 3.11 with venv and pip from its base.
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE}

ENV PATH=/opt/rowen/bin:$PATH \
    PYTHONPATH=/opt/rowen/code \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp

RUN echo 'rowen:x:65532:65532:rowen:/tmp:/usr/sbin/nologin' >> /etc/passwd && echo 'rowen:x:65532:' >> /etc/group

# The dependencies are one layer. Bytecode is compiled here: in a pod nothing can write it.
COPY requirements/uv.txt requirements/controlplane.txt /opt/rowen-build/
RUN python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
        -r /opt/rowen-build/uv.txt \
    && python3 -m venv --without-pip /opt/rowen \
    && /opt/uv/bin/uv pip install --quiet --python /opt/rowen/bin/python --link-mode copy --compile-bytecode \
        --require-hashes --no-deps -r /opt/rowen-build/controlplane.txt \
    && rm -rf /opt/uv

COPY crds/rowen/crds /opt/rowen/code/rowen/crds
COPY kube/rowen/kube /opt/rowen/code/rowen/kube
COPY operator/rowen/operator /opt/rowen/code/rowen/operator
COPY scheduler/rowen/scheduler /opt/rowen/code/rowen/scheduler
COPY gateway/rowen/gateway /opt/rowen/code/rowen/gateway
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/rowen/code

USER 65532:65532
CMD ["python", "-m", "rowen.operator"]
