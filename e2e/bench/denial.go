package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// denials is the number of clusters that are denied, one after the other.
const denials = 5

// denial measures the time from denying a cluster until its poll has ended with 403 and its connection is closed.
var denial = atSite(func(ctx context.Context, _ settings, t *table, at *site) error {
	broker, err := at.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if err := at.Create(ctx, config); err != nil {
		return err
	}
	var took []time.Duration
	for i := range denials {
		c, err := at.caller(fmt.Sprintf("client-%d", i), broker.url)
		if err != nil {
			return err
		}
		conn, answers, err := c.poll(ctx, broker.url)
		if err != nil {
			return err
		}
		denied, before := time.Now(), config.DeepCopy()
		config.Spec.DeniedClusters = append(config.Spec.DeniedClusters, c.id)
		if err := at.Patch(ctx, config, client.MergeFrom(before)); err != nil {
			return errors.Join(err, conn.Close())
		}
		last, _ := io.ReadAll(answers) // a connection that is cut ends with an error
		took = append(took, time.Since(denied))
		_ = conn.Close() // it has ended
		if !bytes.HasPrefix(last, []byte("HTTP/1.1 403 ")) {
			return fmt.Errorf("denied cluster %q got %.300q, want 403", c.id, last)
		}
	}
	t.row("denied cluster until its poll and connection have ended, longest", quantile(took, 1).Seconds(), atMost(2, 0, "s"),
		"%d clusters; median %.2f s", denials, quantile(took, .5).Seconds())
	return nil
})

// poll opens a connection and begins to wait for messages on it. answers continues with what the broker sends then.
func (c *caller) poll(ctx context.Context, url string) (conn net.Conn, answers io.Reader, err error) {
	dialer := tls.Dialer{Config: c.transport.TLSClientConfig}
	if conn, err = dialer.DialContext(ctx, "tcp", strings.TrimPrefix(url, "https://")); err != nil {
		return nil, nil, err
	}
	buffered := bufio.NewReader(conn)
	err = conn.SetDeadline(time.Now().Add(waitTimeout))
	for _, path := range []string{"ping", "messages?wait=60"} {
		_, sent := fmt.Fprintf(conn, "GET /api/v1/%s HTTP/1.1\r\nHost: broker\r\n\r\n", path)
		err = errors.Join(err, sent)
	}
	if err == nil { // the answer to the ping shows that the broker serves the connection
		_, err = answerOf[struct{}](http.ReadResponse(buffered, nil)) //nolint:bodyclose // answerOf closes it
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, buffered, nil
}
