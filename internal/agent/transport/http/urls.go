package http

import (
	"fmt"
	"net/url"
)

// parseURLs parses URLs of the form https://host[:port], and rejects all others: the API's paths
// are fixed, and the broker only speaks TLS. Its errors name the flag.
func parseURLs(flag string, texts []string) ([]*url.URL, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s is not set: want https://host[:port] of the broker", flag)
	}
	var urls []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: not a URL: want https://host[:port]", flag, text)
		}
		if problem := urlProblem(u); problem != "" {
			return nil, fmt.Errorf("%s %q: %s: want https://host[:port]", flag, u.Redacted(), problem)
		}
		u.Path = ""
		urls = append(urls, u)
	}
	return urls, nil
}

func urlProblem(u *url.URL) string {
	switch {
	case u.Scheme != "https":
		return fmt.Sprintf("scheme is %q", u.Scheme)
	case u.Hostname() == "":
		return "no host"
	case u.User != nil:
		return "user and password are not supported, the broker authenticates by certificate"
	case u.Path != "" && u.Path != "/":
		return fmt.Sprintf("path %q", u.Path)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "query or fragment"
	}
	return ""
}
