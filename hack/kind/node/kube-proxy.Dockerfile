# kube-proxy runs iptables: Debian's, with the libraries that it loads.
ARG DEBIAN
FROM ${DEBIAN} AS debian
RUN mkdir -p /out/run /out/tmp && cd /usr/sbin \
 && cp --parents /usr/sbin/xtables-nft-multi /usr/lib/*/xtables/*.so /out/ \
 && ldd /usr/sbin/xtables-nft-multi /usr/lib/*/xtables/*.so | grep -v ':$' | grep -o '/lib[^ ]*\.so[^ ]*' | sort -u | xargs cp -L --parents -t /out/ \
 && for name in iptables ip6tables; do for verb in "" -save -restore; do ln -s xtables-nft-multi /out/usr/sbin/$name$verb; done; done

FROM scratch
COPY --from=debian /out/ /
COPY kube-proxy /usr/local/bin/
ENV PATH=/usr/local/bin:/usr/sbin
