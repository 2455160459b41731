package ledger

// objectName names an object that an offer stands in, whichever bears the name.
type objectName struct{ namespace, name string }

// index has the cluster be found by the object that its offer stands in, and not by the
// one of an earlier offer.
func (s *State) index(c *Cluster, earlier *Manifest) {
	if earlier != nil {
		if key := (objectName{earlier.Namespace, earlier.Name}); s.manifests[key] == c {
			delete(s.manifests, key)
		}
	}
	if m := c.Source; m != nil {
		s.manifests[objectName{m.Namespace, m.Name}] = c
	}
}

// ByManifest returns the cluster whose offer stands in the object of that name, nil if
// none does. The caller must not change it.
func (s *State) ByManifest(namespace, name string) *Cluster {
	return s.manifests[objectName{namespace, name}]
}
