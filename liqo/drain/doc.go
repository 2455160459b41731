// Package drain empties the virtual node of a placement that has ended: it cordons the node,
// evicts the pods as disruption budgets allow, and deletes those that are left after the
// deadline. The plan package decides when; a Drainer observes and acts.
package drain
