# vLLM as somebody else would have it: the dependencies of the runtime image, with nothing of Rowen's nor for it.
ARG BASE
FROM ${BASE}
USER 0
RUN rm -rf /opt/rowen/code /opt/rowen/lib/python3.11/site-packages/structlog*
ENV PYTHONPATH=
USER 65532:65532
