# vLLM as somebody else would have it: the dependencies of the runtime image, with nothing of Rowen's nor for it.
ARG BASE
FROM ${BASE}
USER 0
RUN cd /opt/rowen && rm -rf code lib/python3.11/site-packages/rowen.pth lib/python3.11/site-packages/structlog*
USER 65532:65532
