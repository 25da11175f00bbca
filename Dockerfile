# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/modelpact \
 && /opt/modelpact/bin/pip install --no-cache-dir '.[fast,postgresql,proxy,telemetry,tokens]'

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data modelpact \
 && install --directory --owner=modelpact --mode=0700 /data
COPY --from=build /opt/modelpact /opt/modelpact
ENV PATH=/opt/modelpact/bin:$PATH \
    MODELPACT_DATA=/data \
    PYTHONUNBUFFERED=1
USER modelpact
WORKDIR /data
VOLUME /data
EXPOSE 8377
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8377/healthz', timeout=2)"]
# The shell is left out so that SIGTERM and SIGHUP reach the gateway itself.
ENTRYPOINT ["modelpact"]
CMD ["serve", "--host", "0.0.0.0"]
