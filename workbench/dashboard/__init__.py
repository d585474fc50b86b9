"""The dashboard: Streamlit pages over the functions that the command line and notebooks call."""
