package http

import (
	"errors"
	"fmt"
	"net/url"
)

// parseURLs wants https://host[:port] and nothing more: the API's paths are fixed,
// and mTLS ends at the broker itself.
func parseURLs(texts []string) ([]*url.URL, error) {
	if len(texts) == 0 {
		return nil, errors.New("--broker-url is not set: want https://host[:port] of the broker")
	}
	var urls []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--broker-url %q: no URL: want https://host[:port]", text)
		}
		if problem := problemOf(u); problem != "" {
			return nil, fmt.Errorf("--broker-url %q: %s: want https://host[:port]", u.Redacted(), problem)
		}
		u.Path = ""
		urls = append(urls, u)
	}
	return urls, nil
}

func problemOf(u *url.URL) string {
	switch {
	case u.Scheme != "https":
		return fmt.Sprintf("scheme is %q", u.Scheme)
	case u.Hostname() == "":
		return "no host"
	case u.User != nil:
		return "user and password have no use beside certificates"
	case u.Path != "" && u.Path != "/":
		return fmt.Sprintf("path %q", u.Path)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "query or fragment"
	}
	return ""
}
