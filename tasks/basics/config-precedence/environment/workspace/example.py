from settings import resolve

print(resolve({"port": 80}, {"port": 8080}, {"YARD_PORT": "9090"}, {}))  # {'port': 9090}
