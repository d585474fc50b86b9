"""The dashboard's entry for ``streamlit run app.py``; ``workbench dashboard`` starts the same pages."""

from workbench.dashboard.app import main

main()
